"""Commands about code and its traces: `conform`, `audit`, `campaign`, `replay`, `report`."""
