"""What does each equation compute? A program run one equation at a time."""
