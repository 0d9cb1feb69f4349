"""Words of web pages by one HTMLParser, reset for each page:
threads feed their pages into each other's text.
"""

from html.parser import HTMLParser

import torch
from torch.utils.data import Dataset


class Words(HTMLParser):
    def reset(self):
        super().reset()
        self.words = []
        self.hidden = False

    def handle_starttag(self, tag, attrs):
        self.hidden = tag == "script"

    def handle_data(self, data):
        if not self.hidden:
            self.words += data.split()


class Pages(Dataset):
    def __init__(self, pages):
        self.pages = pages
        self.parser = Words()

    def __len__(self):
        return len(self.pages)

    def __getitem__(self, index):
        self.parser.reset()
        self.parser.feed(self.pages[index])
        self.parser.close()
        return torch.tensor([len(word) for word in self.parser.words])


row = "<p>page {0} has <b>{0}{0}</b> words<script>let x</script><i> and more</i></p>"
dataset = Pages([row.format(number) * (1 + number % 5) for number in range(300)])
