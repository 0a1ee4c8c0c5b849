/**
 * Bounds on what a client may hold without making progress. Durations are in milliseconds. "net/http" and "x/net/http2" are Go's
 * packages, "kube-apiserver" is `pkg/server/secure_serving.go` of k8s.io/apiserver.
 */
export interface ConnectionLimits {
  /** TCP connections at a time, of all clients. Upstream has no bound but that of file descriptors. */
  readonly maxConnections: number;
  /** Part of `maxConnections` that only clients of class `system` can hold permanently. */
  readonly reservedConnections: number;
  /** Connections of one source (an IPv4 address or an IPv6 /64 network) on which no request has been authenticated yet. */
  readonly maxUnauthenticatedPerSource: number;
  /** From the TCP connection to the end of the TLS handshake. net/http uses ReadHeaderTimeout. */
  readonly handshakeTimeoutMs: number;
  /** From the end of the handshake to the client's HTTP/2 preface and SETTINGS. x/net/http2: prefaceTimeout. */
  readonly prefaceTimeoutMs: number;
  /** From the first byte of an HTTP/1.1 request head to its end; on a new connection from the end of the handshake. kube-apiserver: ReadHeaderTimeout. */
  readonly headerTimeoutMs: number;
  /** Between two parts of a request body that the server reads as a whole. */
  readonly bodyTimeoutMs: number;
  /** From the end of the last request to the end of the connection. Frames other than requests do not extend it. kube-apiserver: IdleTimeout. */
  readonly idleTimeoutMs: number;
  /** From the end of a complete response to the time that the client has received it. The request timeout of kube-apiserver covers it. */
  readonly responseTimeoutMs: number;
  /** Between two parts of a streamed response that the client receives. Time without data to send does not count. */
  readonly stalledStreamTimeoutMs: number;
  /** From GOAWAY or the end of the last response to the end of the TCP connection. x/net/http2: goAwayTimeout. */
  readonly closeTimeoutMs: number;
  /**
   * Burst of HTTP/2 frames PING, SETTINGS and RST_STREAM on one connection. Less than NGHTTP2_DEFAULT_STREAM_RESET_BURST (1000), beyond
   * which nghttp2 sends GOAWAY and ignores the client, but Node keeps the connection.
   */
  readonly controlFrameBurst: number;
  /** Rate of these frames per second that the server accepts permanently. NGHTTP2_DEFAULT_STREAM_RESET_RATE. */
  readonly controlFramesPerSecond: number;
}

/** The limits that have no key in the configuration. */
const fixedLimits = {
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

/** Defaults of `ConnectionConfig`, of kube-apiserver where it has the same limit. */
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
