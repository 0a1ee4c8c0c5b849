import { existsSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { EventBroadcaster } from '@oarlock/client/events/event-broadcaster';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { httpClient } from '@oarlock/client/http/client';
import { RequestMetrics } from '@oarlock/client/http/request-metrics';
import { inClusterConfig } from '@oarlock/client/in-cluster-config';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import { systemClock } from '@oarlock/primitives/clock';
import { jsonLinesLogger } from '@oarlock/primitives/json-lines-logger';
import type { Plugin } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Roles } from '@oarlock/spi/role';
import { Registry } from 'prom-client';
import { HealthServer } from './health-server.ts';
import { leaderElectionFlags, leaderElectionOf, type LeaderElection } from './leader-election.ts';

/** The plugins that run beside an exported one: those that it completes, and the role that runs them. */
export interface ComponentParts {
  readonly builtin?: readonly Plugin[];
  readonly role: { readonly plugin: Plugin; readonly config: unknown };
}

export interface ComponentSettings {
  /** Undefined if the component runs without leader election. */
  readonly election: LeaderElection | undefined;
  /** The value of `--scheduler-name`; by default the id of the plugin. */
  readonly schedulerName: string;
}

/** A port of `--port`. @throws Error if the text is not a port */
function portOf(text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port <= 65_535) return port;
  throw new Error(`--port: must be a number from 0 to 65535, not ${JSON.stringify(text)}`);
}

/**
 * Runs an exported plugin as a component of any Kubernetes until SIGTERM: `server.cjs [--kubeconfig FILE] [--config FILE] [--port 8080]
 * [--address 0.0.0.0] [--leader-elect-resource-name NAME ...] [--scheduler-name NAME]`. At the end it releases the Lease. Rejects if a flag or the
 * config of the plugin is invalid, or if the plugin does not start.
 */
export async function serveComponent(
  plugin: Plugin,
  parts: (settings: ComponentSettings) => ComponentParts,
  args: readonly string[] = process.argv.slice(2),
): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      port: { type: 'string', default: '8080' },
      address: { type: 'string', default: '0.0.0.0' },
      config: { type: 'string', default: '/etc/oarlock/config/config.json' },
      kubeconfig: { type: 'string' },
      'scheduler-name': { type: 'string', default: plugin.id },
      ...leaderElectionFlags,
    },
  });
  const port = portOf(values.port);
  const log = jsonLinesLogger((line) => process.stdout.write(line), { plugin: plugin.id });
  const config = existsSync(values.config) ? (JSON.parse(readFileSync(values.config, 'utf8')) as unknown) : {};
  const { options, namespace } = values.kubeconfig === undefined ? await inClusterConfig() : await loadKubeconfig(values.kubeconfig);
  const election = leaderElectionOf(values, { namespace, name: plugin.id });
  const { builtin = [], role } = parts({ election, schedulerName: values['scheduler-name'] });
  const clientMetrics = new Registry();
  const client = httpClient({ ...options, userAgent: plugin.id, metrics: new RequestMetrics(clientMetrics) });
  const informers = new SharedInformerFactory({ client, log, clock: systemClock });
  const events = new EventBroadcaster({ client, log, clock: systemClock, random: Math.random });
  const host = new PluginHost({ log, dataDir: '/tmp' }).provide(Client, client).provide(Informers, informers).provide(Events, events);
  for (const each of builtin) if (each.id !== plugin.id) host.add({ plugin: each, config: {} });
  host.add({ plugin, config }).add({ plugin: role.plugin, config: role.config });
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stopping.abort());
  const stopped = new Promise<void>((resolve) => stopping.signal.addEventListener('abort', () => resolve(), { once: true }));
  const health = new HealthServer({
    port,
    address: values.address,
    checkHealth: async () =>
      (await Promise.all(host.get(Roles).map((each) => each.checkHealth()))).find(({ healthy }) => !healthy) ?? { healthy: true },
    registries: () => [clientMetrics, ...host.plugins.map(({ metrics }) => metrics)],
  });
  informers.start();
  await host.start(stopping.signal);
  log.info({ port: await health.start() }, 'started');
  const ready = Promise.all(host.get(Roles).map((each) => each.waitUntilReady?.(stopping.signal))).then(() => {
    health.ready();
    log.info({}, 'ready');
  });
  await Promise.race([stopped, ready.then(() => stopped)]).catch((error: unknown) => {
    if (!stopping.signal.aborted) throw error;
  });
  log.info({}, 'stopping');
  health.drain();
  await host.stop();
  await informers.stop();
  await events.stop();
  await health.stop();
  client.close();
}
