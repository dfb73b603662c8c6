/* The entry of the page of `kproxy web`. */
import { start } from "./main.js";
import { ServerSource } from "./server_source.js";

history.replaceState(null, "", location.pathname + location.hash);  /* the token is in a cookie now, and not in the history */
start(new ServerSource());
