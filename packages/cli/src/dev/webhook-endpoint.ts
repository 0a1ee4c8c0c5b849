import { networkInterfaces } from 'node:os';
import { addressTowardsAny } from '@oarlock/cluster/process/addresses';
import { CommandError, exitCodes } from '../common/command-error.ts';

export interface WebhookEndpoint {
  /** The address and the port to listen on; port 0 selects a free port. */
  readonly address: string;
  readonly port: number;
  /** The host in the URL that the API server calls. */
  readonly host: string;
  /** Returns the URL that the API server calls, without a slash at the end. */
  urlOf(port: number): string;
}

export interface EndpointOptions {
  /** URL at which the API server reaches this machine, such as that of a tunnel. */
  readonly webhookUrl?: string | undefined;
  readonly port?: number | undefined;
  /** URLs of the API servers. */
  readonly servers: readonly string[];
  readonly signal: AbortSignal;
}

const bracketed = (host: string) => (host.includes(':') ? `[${host}]` : host);
const localAddresses = () => new Set(Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address)));

/**
 * Returns where to listen for reviews, and how the API server reaches it: by default at the address of this machine in the network of the API server. With
 * the URL of another machine, which is a tunnel, listens on loopback.
 * @throws CommandError if the URL is invalid, or if the port at the end of a tunnel is unknown
 */
export async function webhookEndpoint({ webhookUrl, port, servers, signal }: EndpointOptions): Promise<WebhookEndpoint> {
  if (webhookUrl === undefined) {
    const address = await addressTowardsAny(servers, signal);
    return { address, port: port ?? 0, host: address, urlOf: (actual) => `https://${bracketed(address)}:${actual}` };
  }
  const url = URL.canParse(webhookUrl) ? new URL(webhookUrl) : undefined;
  if (url?.protocol !== 'https:' || url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '')
    throw new CommandError(
      `--webhook-url: must be an https URL without user, query and fragment, not ${JSON.stringify(webhookUrl)}`,
      exitCodes.usage,
    );
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const isLocal = localAddresses().has(host);
  const ownPort = url.port === '' ? 443 : Number(url.port);
  if (!isLocal && port === undefined)
    throw new CommandError(
      `--webhook-url: ${host} is no address of this machine; name the local port to which the tunnel leads with --port N`,
      exitCodes.usage,
    );
  return { address: isLocal ? host : '127.0.0.1', port: port ?? ownPort, host, urlOf: () => url.href.replace(/\/+$/, '') };
}
