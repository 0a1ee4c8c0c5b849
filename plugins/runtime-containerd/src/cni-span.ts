import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { startSpan, type Cause } from '@oarlock/kernel/tracing';
import type { Tracer } from '@opentelemetry/api';

/** Where libcni keeps the result of every ADD, a file per network, container and interface, until its DEL. */
const resultsOf = '/var/lib/cni/results';

interface CachedResult {
  readonly networkName?: string;
  readonly result?: {
    readonly interfaces?: readonly { readonly sandbox?: string }[];
    readonly ips?: readonly { readonly address?: string }[];
  };
}

/**
 * Shows in a trace the network set up that the runtime does itself, within RunPodSandbox: it began when the network namespace was made and
 * ended when libcni had written the result. A trace is not worth a failure: where the files are not to be read there is no span.
 */
export async function recordCniAdd(tracer: Tracer, cause: Cause | undefined, sandboxId: string, directory = resultsOf): Promise<void> {
  if (cause === undefined || (cause.traceFlags & 1) === 0) return;
  const names = await readdir(directory).catch((): string[] => []);
  for (const name of names.filter((each) => each.includes(`-${sandboxId}-`) && !each.endsWith('-lo'))) {
    const file = join(directory, name);
    try {
      const { networkName, result } = JSON.parse(await readFile(file, 'utf8')) as CachedResult;
      const namespace = result?.interfaces?.find(({ sandbox }) => sandbox)?.sandbox;
      if (namespace === undefined) continue;
      const [{ mtimeMs: from }, { mtimeMs: to }] = await Promise.all([stat(namespace), stat(file)]);
      startSpan(tracer, 'CNI ADD', {
        cause,
        startTime: Math.min(from, to),
        attributes: {
          ...(networkName !== undefined && { 'oarlock.network': networkName }),
          'oarlock.addresses': (result?.ips ?? []).map(({ address = '' }) => address).join(','),
        },
      }).end(to);
    } catch {
      // removed meanwhile, or of a form that we do not know
    }
  }
}
