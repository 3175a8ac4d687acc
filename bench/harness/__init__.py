"""What every benchmark needs: measures, rounds, peers, results, the table and the pictures."""
