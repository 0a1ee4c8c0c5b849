/** What one attempt of a probe said. `error`: the probe itself could not be made, which counts for nothing. */
export interface ProbeOutcome {
  readonly result: 'success' | 'failure' | 'error';
  /** Of the endpoint or command; goes into events. */
  readonly output: string;
  /** A success of which people are told, with the output. */
  readonly warning?: true;
}

export const succeeded = (output = ''): ProbeOutcome => ({ result: 'success', output });
export const warned = (output: string): ProbeOutcome => ({ result: 'success', output, warning: true });
export const failed = (output: string): ProbeOutcome => ({ result: 'failure', output });

/** As Go words what the network says, since people and tools search for these texts. */
export function describeDial(error: unknown, host: string, port: number): string {
  const code = (error as { readonly code?: unknown }).code;
  const where = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  const why: Readonly<Record<string, string>> = {
    ECONNREFUSED: 'connect: connection refused',
    EHOSTUNREACH: 'connect: no route to host',
    ENETUNREACH: 'connect: network is unreachable',
    ECONNRESET: 'read: connection reset by peer',
    ETIMEDOUT: 'i/o timeout',
    ENOTFOUND: 'lookup: no such host',
  };
  const known = typeof code === 'string' ? why[code] : undefined;
  return known === undefined ? (error instanceof Error ? error.message : String(error)) : `dial tcp ${where}: ${known}`;
}
