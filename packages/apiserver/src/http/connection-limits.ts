import { readFile } from 'node:fs/promises';

/**
 * The limits on connections and memory that a client can hold without progress. Durations are in milliseconds. "net/http" and "x/net/http2" are
 * packages of Go; "kube-apiserver" is `pkg/server/secure_serving.go` of k8s.io/apiserver.
 */
export interface ConnectionLimits {
  /** Maximum number of TCP connections of all clients. Upstream is limited only by the number of file descriptors. */
  readonly maxConnections: number;
  /** The part of `maxConnections` that only clients of class `system` can hold permanently. */
  readonly reservedConnections: number;
  /** Maximum number of connections of one source (an IPv4 address or an IPv6 /64 network) on which no request has been authenticated yet. */
  readonly maxUnauthenticatedPerSource: number;
  /** Maximum number of TLS handshakes at a time, each of which holds some 50 KB of OpenSSL. */
  readonly maxHandshakes: number;
  /** Maximum time from the TCP connection to the end of the TLS handshake. Go: net/http uses ReadHeaderTimeout. */
  readonly handshakeTimeoutMs: number;
  /** Maximum time from the end of the handshake to the client's HTTP/2 preface and SETTINGS. Go: x/net/http2, prefaceTimeout. */
  readonly prefaceTimeoutMs: number;
  /**
   * Maximum time from the first byte of an HTTP/1.1 request head to its end; on a new connection from the end of the handshake. kube-apiserver:
   * ReadHeaderTimeout.
   */
  readonly headerTimeoutMs: number;
  /** Maximum time between two parts of a request body that the server reads completely before it handles the request. */
  readonly bodyTimeoutMs: number;
  /** Maximum time without requests. HTTP/2 frames other than requests do not extend it. kube-apiserver: IdleTimeout. */
  readonly idleTimeoutMs: number;
  /**
   * Maximum time from the end of a complete response until the client has received it. Upstream, the request timeout of kube-apiserver includes this
   * time.
   */
  readonly responseTimeoutMs: number;
  /** Maximum time between two parts of a streamed response that the client receives. Time without data to send does not count. */
  readonly stalledStreamTimeoutMs: number;
  /** Maximum time from GOAWAY or the end of the last response to the end of the TCP connection. Go: x/net/http2, goAwayTimeout. */
  readonly closeTimeoutMs: number;
  /**
   * Burst of HTTP/2 frames PING, SETTINGS and RST_STREAM on one connection. Must be less than NGHTTP2_DEFAULT_STREAM_RESET_BURST (1000): beyond that
   * limit, nghttp2 sends GOAWAY and ignores the client, but Node.js keeps the connection open.
   */
  readonly controlFrameBurst: number;
  /** Rate per second of the frames that `controlFrameBurst` counts. Equal to NGHTTP2_DEFAULT_STREAM_RESET_RATE. */
  readonly controlFramesPerSecond: number;
}

/** The limits that cannot be configured. */
const fixedLimits = {
  maxHandshakes: 1024,
  prefaceTimeoutMs: 10_000,
  closeTimeoutMs: 1_000,
  controlFrameBurst: 500,
  controlFramesPerSecond: 33,
} as const;

/** The section `connections` of the API server's configuration. */
export interface ConnectionConfig {
  readonly max: number;
  readonly reserved: number;
  readonly maxUnauthenticatedPerSource: number;
  readonly handshakeTimeoutSeconds: number;
  readonly headerTimeoutSeconds: number;
  readonly bodyTimeoutSeconds: number;
  readonly idleTimeoutSeconds: number;
  readonly stalledStreamTimeoutSeconds: number;
}

/** The default limits. A limit that kube-apiserver also has is equal to kube-apiserver's default. */
export const defaultConnectionConfig: ConnectionConfig = {
  max: 8192,
  reserved: 512,
  maxUnauthenticatedPerSource: 1024,
  handshakeTimeoutSeconds: 32,
  headerTimeoutSeconds: 32,
  bodyTimeoutSeconds: 30,
  idleTimeoutSeconds: 90,
  stalledStreamTimeoutSeconds: 300,
};

/** The part of the file descriptors of the process that connections may use. Storage, logs and programs need the rest. */
const connectionShare = 0.75;

/**
 * Returns the configuration with at most as many connections as the process can hold with a limit of open files. At the limit itself, the storage and
 * the audit log could not open files.
 */
export function withinOpenFiles(config: ConnectionConfig, openFiles: number | undefined): ConnectionConfig {
  if (openFiles === undefined) return config;
  const max = Math.min(config.max, Math.floor(openFiles * connectionShare));
  return { ...config, max, reserved: Math.min(config.reserved, Math.floor(max / 4)) };
}

/** Returns the limit of open files of this process; undefined if there is none or the system has no /proc. Node.js raises it to the hard limit. */
export async function readOpenFilesLimit(): Promise<number | undefined> {
  if (process.platform !== 'linux') return undefined;
  const soft = /^Max open files +(\d+) /m.exec(await readFile('/proc/self/limits', 'utf8'))?.[1];
  return soft === undefined ? undefined : Number(soft);
}

/** Returns the limits for a configuration and the time that a request has. */
export const connectionLimits = (config: ConnectionConfig, requestTimeoutMs: number): ConnectionLimits => ({
  ...fixedLimits,
  maxConnections: config.max,
  reservedConnections: config.reserved,
  maxUnauthenticatedPerSource: config.maxUnauthenticatedPerSource,
  handshakeTimeoutMs: config.handshakeTimeoutSeconds * 1000,
  headerTimeoutMs: config.headerTimeoutSeconds * 1000,
  bodyTimeoutMs: config.bodyTimeoutSeconds * 1000,
  idleTimeoutMs: config.idleTimeoutSeconds * 1000,
  responseTimeoutMs: requestTimeoutMs,
  stalledStreamTimeoutMs: config.stalledStreamTimeoutSeconds * 1000,
});
