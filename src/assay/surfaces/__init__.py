"""Where people and programs meet the product: the command line and the reporters."""
