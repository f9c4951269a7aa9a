"""What pages share: functions and widgets that a page calls. No page lives here."""
