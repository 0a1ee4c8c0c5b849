interface Fault extends NodeJS.ErrnoException {
  readonly address?: string;
  readonly port?: number;
  readonly hostname?: string;
}

const untrusted = (why: string) => `tls: failed to verify certificate: ${why.startsWith('x509: ') ? '' : 'x509: '}${why}`;
const place = ({ address, port }: Fault) =>
  address === undefined ? 'tcp' : `tcp ${address.includes(':') ? `[${address}]` : address}:${port}`;
const dial = (why: string) => (fault: Fault) => `dial ${place(fault)}: ${why}`;
const unknownAuthority = () => untrusted('certificate signed by unknown authority');

/** The messages of Go's HTTP client, by error code of Node.js or OpenSSL. */
const reasons: ReadonlyMap<string | undefined, (fault: Fault) => string> = new Map([
  ['ECONNREFUSED', dial('connect: connection refused')],
  ['EHOSTUNREACH', dial('connect: no route to host')],
  ['ENETUNREACH', dial('connect: network is unreachable')],
  ['ETIMEDOUT', dial('i/o timeout')],
  ['ENOTFOUND', ({ hostname = '' }: Fault) => `dial tcp: lookup ${hostname}: no such host`],
  ['ECONNRESET', () => 'EOF'],
  ['SELF_SIGNED_CERT_IN_CHAIN', unknownAuthority],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', unknownAuthority],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', unknownAuthority],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', unknownAuthority],
  ['CERT_HAS_EXPIRED', () => untrusted('certificate has expired or is not yet valid')],
  [
    'ERR_TLS_CERT_ALTNAME_INVALID',
    ({ message }: Fault) => untrusted(message.startsWith('x509: ') ? message : `certificate is not valid: ${message}`),
  ],
]);

/** Returns the message that Go's HTTP client has for a connection error of Node.js. */
export function goErrorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const fault: Fault = error;
  const known = reasons.get(fault.code);
  if (known) return known(fault);
  // signatures with SHA-1 and older algorithms
  if (fault.message.includes('digest algorithm too weak')) return untrusted('cannot verify signature: insecure algorithm');
  return fault.message;
}
