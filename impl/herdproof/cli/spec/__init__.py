"""Commands about specs: `new`, `explore`, `prove`, `refine`, `search`, `mutate`, `diff`."""
