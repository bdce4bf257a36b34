"""Pages for people: views of ready-to-show values, templates that show them, and the few styles and scripts they need."""
