/* A row of the list of frames, as `kproxy.html.frame_rows.row_json` makes it. */
const NUMBER = 0, TIME = 1, CONNECTION = 2, CLIENT = 3, API = 4, VERSION = 5, WHAT = 6, SIZE = 7, LATENCY = 8,
  STATE = 9, WRONG = 10, LEVEL = 11, KIND = 12, SERVER = 13, ERROR = 14;
/** States: a request that waits for its response, one that expects none, one whose connection ended without a response. */
const WAITING = 0, ONE_WAY = 2, UNANSWERED = 3;

/** The number at the end of a connection's id. */
export const shortName = (connection) => `#${connection.slice(connection.lastIndexOf("-") + 1)}`;

export { NUMBER, TIME, CONNECTION, CLIENT, API, VERSION, WHAT, SIZE, LATENCY, STATE, WRONG, LEVEL, KIND, SERVER, ERROR, WAITING, ONE_WAY, UNANSWERED };
