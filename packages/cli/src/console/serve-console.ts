import { httpClient, type HttpClient } from '@oarlock/client/http/client';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import { version } from '@oarlock/cluster/process/version';
import { isStatus } from '@oarlock/api/status';
import { systemClock } from '@oarlock/primitives/clock';
import type { Identity } from '@oarlock/spi/authn';
import { ApiServerTarget } from './api-server-target.ts';
import { progress } from '../common/progress/progress.ts';
import { ConsoleServer } from './console-server.ts';

export interface ServeConsoleOptions {
  readonly kubeconfig: string;
  /** Default: the current context of the kubeconfig. */
  readonly context?: string;
  /** Default: a free port. */
  readonly port?: number;
}

interface SelfSubjectReview {
  readonly status?: { readonly userInfo?: { readonly username?: string; readonly groups?: readonly string[] } };
}

/** Serves the console for the API server of a kubeconfig on 127.0.0.1, and prints a link that signs in once, until a signal stops it. */
export async function serveConsole({ kubeconfig, context, port = 0 }: ServeConsoleOptions): Promise<void> {
  const stopped = stopSignal();
  const config = await loadKubeconfig(kubeconfig, { environment: process.env, ...(context !== undefined && { context }) });
  const client = httpClient({ ...config.options, userAgent: `oarlock/${version}` });
  const [user, { gitVersion = '' }] = await Promise.all([
    currentUser(client, config.context),
    client.raw('GET', '/version') as Promise<{ readonly gitVersion?: string }>,
  ]).finally(() => client.close());
  const server = await ConsoleServer.start({
    target: new ApiServerTarget(config),
    user,
    cluster: { name: config.context, version: gitVersion },
    port,
    clock: systemClock,
  });
  progress.stop();
  try {
    console.log(`Console: ${await server.createLink()}`);
    console.log('  (valid once and for a few minutes)');
    console.log(`  Context ${config.context}, ${config.options.server}, user ${user.name}.`);
    console.log('  The browser warns about the certificate, which this process issued. Its SHA-256 fingerprint is');
    console.log(`  ${server.fingerprint}`);
    console.log('\nStop it with Ctrl-C.');
    await stopped;
  } finally {
    await server.close();
  }
}

/** Returns the user of the client as the server knows it; by the name of the context if the server has no SelfSubjectReview. */
async function currentUser(client: HttpClient, context: string): Promise<Identity> {
  const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
  try {
    const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
    const { status } = (await client.raw('POST', path, review)) as SelfSubjectReview;
    return { name: status?.userInfo?.username ?? context, groups: status?.userInfo?.groups ?? [] };
  } catch (error) {
    if (isStatus(error, 'NotFound') || isStatus(error, 'Forbidden')) return { name: context, groups: [] };
    throw error;
  }
}

function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve());
  });
}
