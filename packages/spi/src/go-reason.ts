/** Why there is no connection or no answer, as Go says it. */
export function goReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, address, port, hostname } = error as NodeJS.ErrnoException & { address?: string; port?: number; hostname?: string };
  const where = address === undefined ? 'tcp' : `tcp ${address.includes(':') ? `[${address}]` : address}:${port}`;
  switch (code) {
    case 'ECONNREFUSED':
      return `dial ${where}: connect: connection refused`;
    case 'EHOSTUNREACH':
      return `dial ${where}: connect: no route to host`;
    case 'ENETUNREACH':
      return `dial ${where}: connect: network is unreachable`;
    case 'ENOTFOUND':
      return `dial tcp: lookup ${hostname ?? ''}: no such host`;
    case 'ECONNRESET':
      return 'EOF';
    case 'ETIMEDOUT':
      return `dial ${where}: i/o timeout`;
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
      return 'tls: failed to verify certificate: x509: certificate signed by unknown authority';
    case 'CERT_HAS_EXPIRED':
      return 'tls: failed to verify certificate: x509: certificate has expired or is not yet valid';
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      if (error.message.startsWith('x509: ')) return `tls: failed to verify certificate: ${error.message}`;
      return `tls: failed to verify certificate: x509: certificate is not valid: ${error.message}`;
    default:
      // of SHA-1 and older
      if (error.message.includes('digest algorithm too weak'))
        return 'tls: failed to verify certificate: x509: cannot verify signature: insecure algorithm';
      return error.message;
  }
}
