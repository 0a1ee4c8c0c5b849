import { isStatus } from '@oarlock/api/status';
import type { RunningCluster } from '@oarlock/cluster/run';
import type { Client } from '@oarlock/spi/client';
import { withCluster } from '../common/cluster-access.ts';
import { CommandError } from '../common/command-error.ts';

/** The user of the admin kubeconfig. */
const admin = { name: 'kubernetes-admin', groups: ['system:masters', 'system:authenticated'] };

interface CreatedLink {
  readonly url: string;
}
const createLink = async (client: Client): Promise<string> => ((await client.raw('POST', '/console/links')) as CreatedLink).url;

/** Returns a sign-in link of the console for the cluster's admin; undefined if the composition has no console. */
export async function adminLink(running: RunningCluster): Promise<string | undefined> {
  const { plugins } = running.plan;
  return plugins.some(({ plugin }) => plugin.id === 'console') ? createLink(running.clientAs(admin)) : undefined;
}

/** Prints a sign-in link of the console that a cluster serves, for the cluster's admin. The link is valid once and for a short time. */
export async function printLink(options: { readonly dataDir: string; readonly timeout: number }): Promise<void> {
  try {
    console.log(await withCluster(options, ({ client }) => createLink(client)));
  } catch (cause) {
    if (!isStatus(cause, 'NotFound') && !isStatus(cause, 'Forbidden')) throw cause;
    throw new CommandError('the API server does not serve the console: add `paths: [console]` to the spec of its cluster.yaml', undefined, {
      cause,
    });
  }
}
