// A page that waits for work of the server looks again, until the work is done.
if (document.querySelector("[data-wait]")) setTimeout(() => location.reload(), 1000);
