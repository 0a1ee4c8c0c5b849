import { httpClient, type HttpClient, type HttpClientOptions } from '@oarlock/client/http/client';
import type { ServerList } from '@oarlock/client/http/server-list';
import { caHashes } from '@oarlock/cluster/pki/ca-hash';
import { CommandError, exitCodes } from './command-error.ts';

/** Calls `work` with a client, and closes the client. */
export async function withClient<T>(options: HttpClientOptions, work: (api: HttpClient) => Promise<T>): Promise<T> {
  const api = httpClient(options);
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
 * Fetches the cluster's CAs over an unverified connection. They are trusted because the signing CA matches the hash, which the user received with the
 * token. A server that does not answer is then at the end of the list.
 */
export async function discoverCa(
  servers: ServerList,
  { expectedHash, option }: { readonly expectedHash: string; readonly option: string },
): Promise<string> {
  const { ca } = (await withClient({ server: servers.preferred, servers, insecureSkipTlsVerify: true }, (api) =>
    api.raw('GET', '/oarlock/v1/ca'),
  )) as {
    readonly ca?: unknown;
  };
  if (typeof ca !== 'string' || caHashes(ca)[0] !== expectedHash)
    throw new CommandError(
      `the CA of ${servers.preferred} does not match ${option}: the address belongs to another cluster, or the connection is intercepted`,
    );
  return ca;
}
