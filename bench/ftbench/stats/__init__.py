"""From measured figures to ratios, intervals, verdicts and waterfalls."""
