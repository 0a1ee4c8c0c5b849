import { existsSync, readFileSync, watch } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { EventBroadcaster } from '@oarlock/client/events/event-broadcaster';
import { httpClient, type HttpClient } from '@oarlock/client/http/client';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { inClusterConfig } from '@oarlock/client/in-cluster-config';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import { systemClock } from '@oarlock/primitives/clock';
import { jsonLinesLogger } from '@oarlock/primitives/json-lines-logger';
import { slotOf, type Plugin } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission } from '@oarlock/spi/admission';
import { Authn } from '@oarlock/spi/authn';
import { Authz } from '@oarlock/spi/authz';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { ReviewServer } from './review-server.ts';
import { reviewAccess, reviewAdmission, reviewToken } from './reviews.ts';

/**
 * The time in milliseconds between the start of draining and the stop of the server. EndpointSlices and proxies learn with a delay that a
 * pod terminates.
 */
const drainMs = 3_000;

/** Returns a client that uses the kubeconfig, or the service account of the pod if no kubeconfig is given. */
async function clientOf(kubeconfig: string | undefined): Promise<HttpClient> {
  const { options } = kubeconfig === undefined ? await inClusterConfig() : await loadKubeconfig(kubeconfig);
  return httpClient({ ...options, userAgent: 'oarlock-webhook' });
}

/**
 * Runs an exported plugin as a webhook server until SIGTERM, after which the server completes the reviews in progress: `server.cjs [--port
 * 8443] [--address 0.0.0.0] [--config FILE] [--tls DIR] [--kubeconfig FILE]`. Rejects if the configuration of the plugin is invalid or the
 * plugin does not start.
 */
export async function serve(plugin: Plugin, args: readonly string[] = process.argv.slice(2)): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      port: { type: 'string', default: '8443' },
      address: { type: 'string', default: '0.0.0.0' },
      config: { type: 'string', default: '/etc/oarlock/config/config.json' },
      tls: { type: 'string', default: '/etc/oarlock/tls' },
      kubeconfig: { type: 'string' },
    },
  });
  const log = jsonLinesLogger((line) => process.stdout.write(line), { plugin: plugin.id });
  const config = existsSync(values.config) ? (JSON.parse(readFileSync(values.config, 'utf8')) as unknown) : {};
  const host = new PluginHost({ log, dataDir: '/tmp' });
  const stops: (() => Promise<void> | void)[] = [];
  if (Object.values(plugin.needs).some((need) => [Client, Informers, Events].some(({ token }) => token === slotOf(need).token))) {
    const client = await clientOf(values.kubeconfig);
    const informers = new SharedInformerFactory({ client, log, clock: systemClock });
    const events = new EventBroadcaster({ client, log, clock: systemClock, random: Math.random });
    host.provide(Client, client).provide(Informers, informers).provide(Events, events);
    informers.start();
    stops.push(
      () => client.close(),
      () => events.stop(),
      () => informers.stop(),
    );
  }
  host.add({ plugin, config });
  await host.start();
  stops.push(() => host.stop());
  const pair = () => ['tls.crt', 'tls.key'].map((name) => readFileSync(join(values.tls, name), 'utf8')) as [string, string];
  const [certificate, key] = pair();
  const server = new ReviewServer({
    port: Number(values.port),
    address: values.address,
    certificate,
    key,
    handlers: handlersOf(host),
    log,
  });
  const port = await server.start();
  // a changed Secret is mounted anew as a whole
  const renewals = watch(values.tls, () => {
    try {
      server.updateCertificate(...pair());
    } catch (error) {
      log.warn({ err: error }, 'the new certificate cannot be used yet');
    }
  });
  log.info({ port }, 'ready');
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve());
  });
  log.info({}, 'stopping');
  server.drain();
  await systemClock.sleep(drainMs);
  renewals.close();
  await server.stop();
  for (const stop of stops.reverse()) await stop();
}

function handlersOf(host: PluginHost): ReadonlyMap<string, (review: unknown) => Promise<object>> {
  const [admission] = host.get(Admission);
  const [authn] = host.get(Authn);
  const [authz] = host.get(Authz);
  return new Map([
    ...(admission === undefined ? [] : (['mutate', 'validate'] as const)).map(
      (phase) => [`/${phase}`, (review: unknown) => reviewAdmission(admission as NonNullable<typeof admission>, phase, review)] as const,
    ),
    ...(authn === undefined ? [] : ([['/authenticate', (review: unknown) => reviewToken(authn, review)]] as const)),
    ...(authz === undefined ? [] : ([['/authorize', (review: unknown) => reviewAccess(authz, review)]] as const)),
  ]);
}
