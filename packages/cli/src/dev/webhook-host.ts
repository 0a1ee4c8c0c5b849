import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { isIP } from 'node:net';
import { groupResource } from '@oarlock/api/resource';
import { openKeys } from '@oarlock/cluster/pki/keys';
import type { RemoteAccess } from '@oarlock/cluster/remote-access';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';
import type { Logger } from '@oarlock/primitives/logger';
import { printable } from '@oarlock/primitives/printable-text';
import { allow, type AdmissionPlugin, type AdmissionRequest } from '@oarlock/spi/admission';
import { ReviewServer } from '@oarlock/webhook-server/review-server';
import { reviewAdmission } from '@oarlock/webhook-server/reviews';
import { CommandError } from '../common/command-error.ts';
import type { Colors } from './terminal-colors.ts';
import { closeSession, openSession, removalCommand } from './dev-session.ts';
import { webhookEndpoint } from './webhook-endpoint.ts';
import { pathOf, phases, probePath, WebhookRegistration, type Reachability, type RegisteredPlugin } from './webhook-registration.ts';

const certificateDays = 90;
/** Time in milliseconds for the removal of the webhooks at the end. */
const removalMs = 10_000;
const secretBytes = 24;
/**
 * Time in milliseconds for the answer of a plugin, less than the timeout of the webhooks: the error that an API server returns to its caller after the timeout
 * contains the URL, and so the secret.
 */
export const answerMs = 4000;

export interface WebhookHostOptions {
  readonly access: RemoteAccess;
  readonly dataDir: string;
  readonly webhookUrl?: string | undefined;
  readonly port?: number | undefined;
  readonly failurePolicy: 'Ignore' | 'Fail';
  readonly log: Logger;
  readonly paint: Colors;
  readonly signal: AbortSignal;
  print(text: string): void;
}

/** The webhooks of a run: their server in this process, and their configurations in the cluster. */
export interface WebhookHost {
  readonly url: string;
  /** Writes the configurations for the current rules of the plugins. */
  apply(plugins: readonly RegisteredPlugin[]): Promise<void>;
  /** Removes the configurations and stops the server. Prints a message if the configurations cannot be removed. */
  close(): Promise<void>;
}

/** The plugins that answer reviews: `instance` is called, and follows the reloads of the plugin. */
type Reviewers = ReadonlyMap<string, AdmissionPlugin>;

const anyRequest: AdmissionPlugin = { matches: [{ resources: ['*'], operations: ['*'] }], validate: () => allow };

/** Describes a request in one line, such as `CREATE pods default/web by ada`. */
export function requestLine({ operation, resource, subresource, namespace, name, identity }: AdmissionRequest, paint: Colors): string {
  const what = subresource === '' ? groupResource(resource) : `${groupResource(resource)}/${subresource}`;
  const object = [namespace, name].filter((part) => part !== '').join('/');
  // names are not validated yet: with line breaks they would look like other requests
  return [paint.bold(printable(`${operation} ${what}`)), printable(object), paint.dim(`by ${printable(identity.name)}`)]
    .filter((part) => part !== '')
    .join(' ');
}

type Answer = (review: unknown) => Promise<object>;

/** Returns the answer with a deadline, after which it fails. */
export function withDeadline(answer: Answer, clock: Clock): Answer {
  return (review) =>
    new Promise((resolve, reject) => {
      const timer = clock.after(answerMs, () => reject(new Error(`the plugin did not answer within ${answerMs / 1000} s`)));
      answer(review)
        .finally(() => timer.cancel())
        .then(resolve, reject);
    });
}

/**
 * Starts a webhook server, and checks that the API server reaches it.
 * @throws CommandError with the remedy if the API server cannot reach it; nothing is left in the cluster then
 */
export async function openWebhookHost(reviewers: Reviewers, options: WebhookHostOptions): Promise<WebhookHost> {
  const { access, dataDir, failurePolicy, log, paint, print, signal } = options;
  const { client } = access;
  const endpoint = await webhookEndpoint({ ...options, servers: access.servers.servers });
  const { keys } = await openKeys(join(dataDir, 'pki'), access.server);
  const isAddress = isIP(endpoint.host) !== 0;
  const pair = await keys.issue({
    commonName: 'oarlock-dev',
    dnsNames: isAddress ? [] : [endpoint.host],
    ipAddresses: isAddress ? [endpoint.host] : [],
    usages: ['server'],
    days: certificateDays,
  });
  // API servers have no client certificate by default: only they know this part of the path, from the configurations
  const secret = `/${randomBytes(secretBytes).toString('base64url')}`;
  let wasCalled = false;
  const handlers = new Map<string, Answer>([
    [
      `${secret}${probePath}`,
      (review) => {
        wasCalled = true;
        return reviewAdmission(anyRequest, 'validate', review);
      },
    ],
  ]);
  for (const [name, plugin] of reviewers)
    for (const phase of phases) {
      const answer = withDeadline((review) => reviewAdmission(plugin, phase, review), systemClock);
      handlers.set(`${secret}${pathOf(name, phase)}`, answer);
    }
  const server = new ReviewServer({
    port: endpoint.port,
    address: endpoint.address,
    certificate: pair.certificate,
    key: pair.key,
    handlers,
    log,
  });
  const url = endpoint.urlOf(await server.start());
  const id = await openSession(dataDir, access.server);
  const registration = new WebhookRegistration({
    ...{ client, clock: systemClock, id, ca: keys.caBundle, failurePolicy },
    url: `${url}${secret}`,
  });
  const close = async () => {
    await closeSession(dataDir, id, { client, signal: AbortSignal.timeout(removalMs) }).catch((error: unknown) =>
      print(paint.red(`The webhooks were not removed (${errorText(error)}). The next start removes them, or: ${removalCommand(id)}`)),
    );
    await server.stop();
  };
  try {
    report(await registration.checkReachable(() => wasCalled, signal), { url, server: access.server, print, paint });
  } catch (error) {
    await close();
    throw error;
  }
  return { url, apply: (plugins) => registration.apply(plugins), close };
}

function report(
  reachability: Reachability,
  { url, server, print, paint }: Pick<WebhookHostOptions, 'print' | 'paint'> & { readonly url: string; readonly server: string },
): void {
  if (reachability.reachable === true) return;
  const { reachable, reason } = reachability;
  if (reachable === undefined) {
    print(paint.yellow(`Warning: whether ${server} reaches ${url} could not be checked: ${reason}`));
    return;
  }
  throw new CommandError(
    [
      `the API server at ${server} cannot reach the plugins at ${url}: ${reason}`,
      'Name an address of this machine that the API server reaches, with --webhook-url https://ADDRESS:PORT: for a cluster in containers, such as kind, that of',
      'the bridge; for a cluster behind NAT, that of a TCP tunnel whose other end is --port on this machine.',
    ].join('\n'),
  );
}
