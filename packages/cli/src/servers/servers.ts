import { isStatus } from '@oarlock/api/status';
import { serversPath, type ServerWithMember } from '@oarlock/cluster/servers/server-plugins';
import { withCluster } from '../common/cluster-access.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { formatTable } from '../common/format-table.ts';
import { alarmNotices, memberColumns, memberTitles } from '../status/cluster-status.ts';
import { printFacts, type OutputFormat } from '../common/output.ts';

interface ServerOptions {
  readonly dataDir: string;
  readonly timeout: number;
}

/** Prints the servers of the cluster. */
export async function listServers(options: ServerOptions & { readonly output: OutputFormat }): Promise<void> {
  const servers = await withCluster(options, async ({ client }) => {
    try {
      return ((await client.raw('GET', serversPath)) as { readonly servers: readonly ServerWithMember[] }).servers;
    } catch (error) {
      if (isStatus(error, 'NotFound'))
        throw new CommandError('the storage of this cluster serves one API server only; `oarlock status` shows it', undefined, {
          cause: error,
        });
      throw error;
    }
  });
  await printFacts(options.output, { servers }, () => serverTable(servers));
}

function serverTable(servers: readonly ServerWithMember[]): string {
  const hasMembers = servers.some(({ member }) => member !== undefined);
  const rows = servers.map(({ name, ready, url, version, keysGeneration, startedAt, member }) => [
    name,
    ready ? 'Ready' : 'NotReady',
    url,
    version,
    String(keysGeneration),
    startedAt,
    ...(hasMembers ? memberColumns(member) : []),
  ]);
  const table = formatTable([['NAME', 'STATUS', 'URL', 'VERSION', 'KEYS', 'STARTED', ...(hasMembers ? memberTitles : [])], ...rows]);
  return [table, ...alarmNotices(servers)].join('\n\n');
}

/** Removes a server that has ended. @throws CommandError if it runs or is unknown */
export async function removeServer(name: string, options: ServerOptions): Promise<void> {
  await withCluster(options, async ({ client }) => {
    try {
      await client.raw('DELETE', `${serversPath}?${new URLSearchParams({ name })}`);
    } catch (error) {
      if (isStatus(error, 'NotFound'))
        throw new CommandError(`there is no server ${name}; \`oarlock server list\` lists them`, exitCodes.usage);
      if (isStatus(error, 'Conflict')) throw new CommandError((error as Error).message);
      throw error;
    }
  });
  console.log(
    `removed the server ${name}. Its data directory has the keys of the cluster: delete it, or rotate the keys if the machine is lost.`,
  );
}
