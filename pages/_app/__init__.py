"""What app.py alone needs: the list of pages, origins that may talk to it, warming up."""
