"""What pages share: cards, charts, pickers, tables. It knows no page and no question."""
