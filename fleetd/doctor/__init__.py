"""What is wrong with a set-up, in words that say what to do: each part is asked by itself, and one's failure hides none."""
