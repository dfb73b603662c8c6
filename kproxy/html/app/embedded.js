/* The entry of a page in one file, with its data in it. */
import { $ } from "./elements.js";
import { EmbeddedSource } from "./embedded_source.js";
import { start } from "./main.js";

if ("DecompressionStream" in window) start(new EmbeddedSource(JSON.parse($("data").textContent)));
else $("view").append("This browser is too old for the page: it cannot decompress (Chrome 80, Firefox 113, Safari 16.4 can).");
