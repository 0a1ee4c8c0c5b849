import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { startSpan, type SpanContext } from '@oarlock/kernel/tracing';
import type { Tracer } from '@opentelemetry/api';

/** The cache in which libcni stores the result of an ADD until the DEL: one file per network, container and interface. */
const cniResultsDir = '/var/lib/cni/results';

interface CachedResult {
  readonly networkName?: string;
  readonly result?: {
    readonly interfaces?: readonly { readonly sandbox?: string }[];
    readonly ips?: readonly { readonly address?: string }[];
  };
}

/** The sandbox whose CNI ADD is traced, and the directory of the records. */
export interface CniAddTrace {
  readonly spanContext: SpanContext | undefined;
  readonly sandboxId: string;
  readonly directory?: string | undefined;
}

/**
 * Adds a trace span for the CNI ADD that the runtime executes during RunPodSandbox. The span starts when the network namespace was created and ends
 * when libcni wrote the result. If the files cannot be read, there is no span; tracing never fails the call.
 */
export async function traceCniAdd(tracer: Tracer, { spanContext, sandboxId, directory = cniResultsDir }: CniAddTrace): Promise<void> {
  if (spanContext === undefined || (spanContext.traceFlags & 1) === 0) return;
  const names = await readdir(directory).catch((): string[] => []);
  for (const name of names.filter((each) => each.includes(`-${sandboxId}-`) && !each.endsWith('-lo'))) {
    const file = join(directory, name);
    try {
      const { networkName, result } = JSON.parse(await readFile(file, 'utf8')) as CachedResult;
      const namespace = result?.interfaces?.find(({ sandbox }) => sandbox)?.sandbox;
      if (namespace === undefined) continue;
      const [{ mtimeMs: from }, { mtimeMs: to }] = await Promise.all([stat(namespace), stat(file)]);
      startSpan(tracer, 'CNI ADD', {
        spanContext,
        startTime: Math.min(from, to),
        attributes: {
          ...(networkName !== undefined && { 'oarlock.network': networkName }),
          'oarlock.addresses': (result?.ips ?? []).map(({ address = '' }) => address).join(','),
        },
      }).end(to);
    } catch {
      // removed in the meantime, or in an unknown format
    }
  }
}
