"""The statistics of a run: from measured figures to ratios, intervals, verdicts and waterfalls."""
