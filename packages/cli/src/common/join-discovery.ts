import { isObject } from '@oarlock/api/json/json';
import { isStatus } from '@oarlock/api/status';
import { httpClient, type HttpClient, type HttpClientOptions } from '@oarlock/client/http/client';
import { isUnavailable, type RetryOptions } from '@oarlock/client/http/retry-unavailable';
import type { ServerList } from '@oarlock/client/http/server-list';
import type { CaResponse } from '@oarlock/cluster/paths/join-path';
import { caHash, certificatesOf } from '@oarlock/cluster/pki/ca-hash';
import { errorText } from '@oarlock/primitives/error-text';
import { printable } from '@oarlock/primitives/printable-text';
import { z } from 'zod';
import { failedChecks, readinessOf } from './failed-checks.ts';
import { CommandError, exitCodes } from './command-error.ts';

/** Largest difference of two clocks with which a machine joins, in milliseconds. */
const maxClockSkewMs = 60_000;

/** The maximum size of an answer to a machine that joins. */
const maxAnswerBytes = 16 * 1024 * 1024;
/** The same for the CAs of the cluster, which are read before the server is verified. */
const maxCaBytes = 256 * 1024;

/** Calls `work` with a client, and closes the client. */
export async function withClient<T>(options: HttpClientOptions, work: (api: HttpClient) => Promise<T>): Promise<T> {
  const api = httpClient({ maxResponseBytes: maxAnswerBytes, ...options });
  try {
    return await work(api);
  } finally {
    api.close();
  }
}

interface JoinTarget {
  readonly server: string;
  readonly caHash: string;
}

/** Validates the URL and the CA hash of a join. `names` are the options that the user gave. @throws CommandError if one is invalid */
export function validateJoinTarget({ server, caHash }: JoinTarget, names: JoinTarget): void {
  const usage = (message: string) => new CommandError(message, exitCodes.usage);
  if (!URL.canParse(server) || new URL(server).protocol !== 'https:')
    throw usage(`${names.server}: ${server} is not an https URL such as https://10.0.0.1:6443`);
  if (!/^sha256:[0-9a-f]{64}$/.test(caHash))
    throw usage(`${names.caHash} must have the form sha256:<64 hexadecimal digits>; \`oarlock token create\` prints it`);
}

/**
 * Fetches the cluster's signing CA over an unverified connection. It is trusted because it matches the hash, which the user received with the token.
 * Other CAs in the answer are not trusted: an attacker on the path could add its own, and receive the token on the next connection. A server that does not
 * answer is then at the end of the list.
 */
export async function discoverCa(
  servers: ServerList,
  { expectedHash, option }: { readonly expectedHash: string; readonly option: string },
): Promise<string> {
  const startedAt = Date.now();
  const unverified = { server: servers.preferred, servers, insecureSkipTlsVerify: true, maxResponseBytes: maxCaBytes };
  const answer = await withClient(unverified, (api) => api.raw('GET', '/oarlock/v1/ca'));
  const { ca, time }: Partial<Record<keyof CaResponse, unknown>> = isObject(answer) ? answer : {};
  const [signing] = typeof ca === 'string' ? certificatesOf(ca) : [];
  if (signing === undefined || caHash(signing) !== expectedHash)
    throw new CommandError(
      `the CA of ${servers.preferred} does not match ${option}: the address belongs to another cluster, or the connection is intercepted`,
    );
  if (typeof time === 'number') requireSynchronizedClock(time, { startedAt, endedAt: Date.now(), server: servers.preferred });
  return `${signing}\n`;
}

/** Returns the answer of a server in the form of a schema. @throws CommandError if it has another form */
export function parseAnswer<T>(schema: z.ZodType<T>, answer: unknown, server: string): T {
  const parsed = schema.safeParse(answer);
  if (parsed.success) return parsed.data;
  throw new CommandError(`${server} does not answer as a server of Oarlock: ${z.prettifyError(parsed.error)}`);
}

/** A server answers and cannot read its storage, as while a member of etcd starts again. */
class ServerNotReady extends CommandError {}

/**
 * Returns how the requests of a join are repeated while a server that has answered before is unavailable. That includes a 401 with credentials that the
 * server has accepted: it cannot read its storage. Prints one notice.
 */
export const joinRetry = (server: string, options: RetryOptions = {}): RetryOptions => ({
  isRetried: (error) => error instanceof ServerNotReady || isUnavailable(error) || isStatus(error, 'Unauthorized'),
  onWait: (error) => console.error(`waiting for ${server}: ${printable(errorText(error))}`),
  ...options,
});

/**
 * Returns the error for a token that a server has rejected. A server that cannot read its storage rejects every token, as Kubernetes does: then the error
 * names the failed checks of the server. `command` creates a token.
 */
export async function rejectedToken(
  { server, ca }: { readonly server: string; readonly ca: string },
  command: string,
): Promise<CommandError> {
  // a server that does not answer here either has answered before: the token remains the likely reason
  const readiness = await withClient({ server, ca }, readinessOf).catch(() => '');
  const failed = failedChecks(readiness);
  return failed.length > 0
    ? new ServerNotReady(
        `${server} cannot verify the token, because it is not ready: ${failed.join(', ')} failed. Join again when it is ready`,
      )
    : new CommandError(`${server} rejects the token: it is unknown or has expired; \`${command}\` prints a new one`);
}

/** @throws CommandError if the clocks of this machine and of the server differ by more than a minute, with which certificates and leases fail */
export function requireSynchronizedClock(
  time: number,
  { startedAt, endedAt, server }: { readonly startedAt: number; readonly endedAt: number; readonly server: string },
): void {
  // the server read its clock at a time between the request and the answer
  const aheadMs = startedAt > time ? startedAt - time : Math.min(0, endedAt - time);
  if (Math.abs(aheadMs) <= maxClockSkewMs) return;
  throw new CommandError(
    `the clock of this machine is ${Math.round(Math.abs(aheadMs) / 1000)} s ${aheadMs > 0 ? 'ahead of' : 'behind'} that of ${server}: synchronize the clocks, for example with NTP, and join again`,
  );
}
