import { getServers } from 'node:dns';
import type { ClientRequest } from 'node:http';
import { isIP, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/** The properties of the errors of Node.js and OpenSSL that the texts quote. */
interface NetworkFault extends NodeJS.ErrnoException {
  readonly address?: string;
  readonly port?: number;
  readonly hostname?: string;
  readonly host?: string;
  readonly cert?: { readonly subjectaltname?: string };
  readonly rawPacket?: Buffer;
}

/** The time from which and until which a certificate is valid, in milliseconds since the epoch. */
export interface CertificateValidity {
  readonly from: number;
  readonly to: number;
}

/** The addresses of both ends of a connection, such as a socket, and the validity of the other end's certificate. */
export type ConnectionEnds = {
  readonly [Key in 'localAddress' | 'localPort' | 'remoteAddress' | 'remotePort']: Socket[Key] | undefined;
} & { readonly certificate?: CertificateValidity | undefined };

type FaultText = (fault: NetworkFault, ends: ConnectionEnds | undefined) => string;

/** Returns `HOST:PORT`, with brackets around an IPv6 address (Go's net.JoinHostPort). */
export const joinHostPort = (host: string, port: number | string): string => `${host.includes(':') ? `[${host}]` : host}:${port}`;

const dialed = ({ address, port }: NetworkFault): string =>
  address === undefined ? 'tcp' : port === undefined ? `unix ${address}` : `tcp ${joinHostPort(address, port)}`;
const dial =
  (why: string): FaultText =>
  (fault) =>
    `dial ${dialed(fault)}: ${why}`;

/** The text of a failed system call on a connection: `read tcp LOCAL->REMOTE: read: WHY`. */
const transfer = (call: string, why: string, ends: ConnectionEnds | undefined): string => {
  const { localAddress, localPort, remoteAddress, remotePort } = ends ?? {};
  const known = localAddress !== undefined && localPort !== undefined && remoteAddress !== undefined && remotePort !== undefined;
  const where = known ? ` ${joinHostPort(localAddress, localPort)}->${joinHostPort(remoteAddress, remotePort)}` : '';
  return `${call} tcp${where}: ${call}: ${why}`;
};
const isTransfer = ({ syscall }: NetworkFault): boolean => syscall === 'read' || syscall === 'write';

/** A connect that fails, or a transfer if the fault is one. */
const systemCall =
  (why: string): FaultText =>
  (fault, ends) =>
    isTransfer(fault) && fault.syscall !== undefined ? transfer(fault.syscall, why, ends) : `dial ${dialed(fault)}: connect: ${why}`;

const lookup =
  (why: string): FaultText =>
  ({ hostname = '' }) => {
    const [server] = getServers();
    const on = server === undefined ? '' : ` on ${isIP(server) === 0 ? server : joinHostPort(server, 53)}`;
    return `dial tcp: lookup ${hostname}${on}: ${why}`;
  };

const unverified = (why: string): string => `tls: failed to verify certificate: ${why.startsWith('x509: ') ? '' : 'x509: '}${why}`;
const unknownAuthority: FaultText = () => unverified('certificate signed by unknown authority');
/** Go names the times of the certificate of the server. The certificate of an authority is out of time if that of the server is not. */
const outOfTime: FaultText = (_fault, ends) => {
  const { from, to } = ends?.certificate ?? {};
  const now = Date.now();
  const late = to !== undefined && now > to;
  const limit = late ? to : from !== undefined && now < from ? from : undefined;
  const times = limit === undefined ? '' : `: current time ${rfc3339(now)} is ${late ? 'after' : 'before'} ${rfc3339(limit)}`;
  return unverified(`certificate has expired or is not yet valid${times}`);
};
const rfc3339 = (time: number): string => `${new Date(time).toISOString().slice(0, 'yyyy-mm-ddThh:mm:ss'.length)}Z`;

/** Go's text for a certificate that is for other names than the one of the server. */
const otherName: FaultText = ({ message, host, cert }) => {
  if (message.startsWith('x509: ') || host === undefined || cert === undefined) return unverified(message);
  const names = (cert.subjectaltname ?? '').split(', ');
  const ofKind = (prefix: string) => names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
  const valid = ofKind(isIP(host) === 0 ? 'DNS:' : 'IP Address:').join(', ');
  if (valid !== '') return unverified(`certificate is valid for ${valid}, not ${host}`);
  return unverified(
    isIP(host) === 0
      ? `certificate is not valid for any names, but wanted to match ${host}`
      : `cannot validate certificate for ${host} because it doesn't contain any IP SANs`,
  );
};

const notHttp: FaultText = ({ rawPacket, message }) => {
  const [line = ''] = (rawPacket?.toString('latin1') ?? '').split(/\r?\n/, 1);
  // JSON escapes control characters with four digits, Go with two
  const quoted = JSON.stringify(line).replace(/[\u007f-\u00ff]|\\u00../g, (found) => {
    const code = found.length === 1 ? found.charCodeAt(0) : Number.parseInt(found.slice(2), 16);
    return `\\x${code.toString(16).padStart(2, '0')}`;
  });
  return rawPacket === undefined ? message : `net/http: HTTP/1.x transport connection broken: malformed HTTP response ${quoted}`;
};

const plainServer = 'http: server gave HTTP response to HTTPS client';
/** By the end of OpenSSL's reason, whose beginning depends on the version of OpenSSL. */
const tlsTexts: readonly (readonly [string, string])[] = [
  ['wrong version number', plainServer],
  ['packet length too long', plainServer],
  ['alert handshake failure', 'remote error: tls: handshake failure'],
  ['alert bad certificate', 'remote error: tls: bad certificate'],
  ['alert unknown ca', 'remote error: tls: unknown certificate authority'],
  ['alert protocol version', 'remote error: tls: protocol version not supported'],
  ['alert certificate required', 'remote error: tls: certificate required'],
];
/** Node.js has OpenSSL's reason in the error code, or in the message of EPROTO. */
function tlsText({ code = '', message }: NetworkFault): string | undefined {
  const reason = code.startsWith('ERR_SSL_')
    ? code.slice('ERR_SSL_'.length).replaceAll('_', ' ').toLowerCase()
    : /:SSL routines:[^:]*:([^:]+):/.exec(message)?.[1];
  return reason === undefined ? undefined : tlsTexts.find(([end]) => reason.endsWith(end))?.[1];
}

const texts: ReadonlyMap<string | undefined, FaultText> = new Map<string | undefined, FaultText>([
  ['ECONNREFUSED', systemCall('connection refused')],
  ['ENOENT', (fault, ends) => (fault.syscall === 'connect' ? systemCall('no such file or directory')(fault, ends) : fault.message)],
  ['EHOSTUNREACH', systemCall('no route to host')],
  ['ENETUNREACH', systemCall('network is unreachable')],
  ['ENETDOWN', systemCall('network is down')],
  ['EADDRNOTAVAIL', systemCall('cannot assign requested address')],
  ['ETIMEDOUT', (fault, ends) => (isTransfer(fault) ? systemCall('connection timed out') : dial('i/o timeout'))(fault, ends)],
  // Node.js has no system call in the error if the other side ended the connection in order ("socket hang up")
  ['ECONNRESET', (fault, ends) => (fault.syscall === undefined ? 'EOF' : systemCall('connection reset by peer')(fault, ends))],
  ['EPIPE', (fault, ends) => (fault.syscall === undefined ? 'EOF' : systemCall('broken pipe')(fault, ends))],
  ['UND_ERR_SOCKET', () => 'EOF'],
  ['UND_ERR_CONNECT_TIMEOUT', dial('i/o timeout')],
  ['ENOTFOUND', lookup('no such host')],
  ['EAI_AGAIN', lookup('server misbehaving')],
  ['ABORT_ERR', ({ cause }) => (isTimeout(cause) ? 'context deadline exceeded' : 'context canceled')],
  ['SELF_SIGNED_CERT_IN_CHAIN', unknownAuthority],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', unknownAuthority],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', unknownAuthority],
  ['UNABLE_TO_GET_ISSUER_CERT', unknownAuthority],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', unknownAuthority],
  ['CERT_SIGNATURE_FAILURE', unknownAuthority],
  ['CERT_HAS_EXPIRED', outOfTime],
  ['CERT_NOT_YET_VALID', outOfTime],
  ['ERR_TLS_CERT_ALTNAME_INVALID', otherName],
  ['HPE_INVALID_CONSTANT', notHttp],
]);

const isTimeout = (error: unknown): boolean => error instanceof Error && error.name === 'TimeoutError';

/**
 * Returns the text that Go's `net`, `net/http` and `crypto/tls` have for a network error of Node.js, because users and tools search for
 * Go's texts. Every error of a connection that a user can see has this text. The message of any other error is returned as it is.
 *
 * @param ends the ends of the failed connection, which the text of a failed read or write contains
 */
export function goErrorText(error: unknown, ends?: ConnectionEnds): string {
  if (!(error instanceof Error)) return String(error);
  // all addresses of a name failed: Go reports the first one
  if (error instanceof AggregateError && error.errors.length > 0) return goErrorText(error.errors[0], ends);
  // `fetch` wraps the error of the connection
  if (error.message === 'fetch failed' && error.cause instanceof Error) return goErrorText(error.cause, ends);
  if (isTimeout(error)) return 'context deadline exceeded';
  const fault: NetworkFault = error;
  // errors of the API and of gRPC have numbers
  const code: unknown = fault.code;
  if (typeof code === 'number') return fault.message;
  const text = texts.get(fault.code);
  if (text !== undefined) return text(fault, ends);
  const tls = tlsText(fault);
  if (tls !== undefined) return tls;
  // signatures with SHA-1 and older algorithms
  if (fault.message.includes('digest algorithm too weak')) return unverified('cannot verify signature: insecure algorithm');
  return fault.message;
}

/** Returns a function that has the ends of the request's connection, and the validity of the server's certificate, also after the connection has ended. */
export function connectionEnds(request: ClientRequest): () => ConnectionEnds | undefined {
  let ends: ConnectionEnds | undefined;
  request.once('socket', (socket) => {
    const read = () => {
      const { localAddress, localPort, remoteAddress, remotePort } = socket;
      ends = { localAddress, localPort, remoteAddress, remotePort };
    };
    if (!socket.connecting) {
      read();
      return;
    }
    socket.once('connect', read);
    // before Node.js verifies the certificate: after a failure, the socket has none any more
    if (socket instanceof TLSSocket)
      socket.prependOnceListener('secure', () => {
        ends = ends && { ...ends, certificate: validityOf(socket) };
      });
  });
  return () => ends;
}

function validityOf(socket: TLSSocket): CertificateValidity | undefined {
  const { valid_from: from, valid_to: to } = socket.getPeerCertificate();
  return from === undefined || to === undefined ? undefined : { from: Date.parse(from), to: Date.parse(to) };
}

/** Returns the text of a failed HTTP request, as Go's `url.Error` has it: `Get "URL": WHY`. */
export const requestErrorText = (method: string, url: string, why: string): string =>
  `${method.slice(0, 1).toUpperCase()}${method.slice(1).toLowerCase()} ${JSON.stringify(url)}: ${why}`;

/** What follows the text of a request that did not receive the head of a response within the time limit of Go's `http.Client`. */
export const clientTimeout = 'context deadline exceeded (Client.Timeout exceeded while awaiting headers)';

/** The properties of an error by which another process reports a failed connection attempt. */
export type DialFailure = Pick<NetworkFault, 'code' | 'syscall' | 'address' | 'port' | 'message'>;

/**
 * Returns containerd's text for a port of a sandbox to which no connection can be made. `failures` are the attempts, the loopback addresses
 * last.
 */
export function forwardErrorText(port: number, sandboxId: string, failures: readonly DialFailure[]): string {
  const textOf = (family: 4 | 6) => {
    const failure = failures.findLast(({ address = '' }) => isIP(address) === family);
    return failure && goErrorText(Object.assign(new Error(failure.message), failure)).replace(/^dial tcp /, `dial tcp${family} `);
  };
  const [ipv4, ipv6] = [textOf(4), textOf(6)];
  const why = [ipv4 && `IPv4: ${ipv4}`, ipv6 && `IPv6 ${ipv6}`].filter(Boolean).join(' ');
  return `failed to connect to localhost:${port} inside namespace ${JSON.stringify(sandboxId)}, ${why || failures[0]?.message}`;
}
