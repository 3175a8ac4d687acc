"""`stoker top`: GPUs and jobs live in a terminal. Front end only: it asks the api and shows."""
