"""Files of jobs (CSV, YAML, JSON lines) read into entries; nothing here touches the queue."""
