"""Words of web pages: each page gets a parser of its own."""

from html.parser import HTMLParser

import torch
from torch.utils.data import Dataset


class Words(HTMLParser):
    def __init__(self):
        super().__init__()
        self.words = []

    def handle_data(self, data):
        self.words += data.split()


class Pages(Dataset):
    parser = Words  # the class, not an object

    def __init__(self, pages):
        self.pages = pages

    def __len__(self):
        return len(self.pages)

    def __getitem__(self, index):
        parser = self.parser()
        parser.feed(self.pages[index])
        parser.close()
        return torch.tensor([len(word) for word in parser.words])


row = "<p>page {0} has <b>{0}{0}</b> words<i> and more</i></p>"
dataset = Pages([row.format(number) * (1 + number % 5) for number in range(300)])
