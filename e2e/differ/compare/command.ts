import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { corpus } from '../corpus/corpus.ts';
import type { DifferOptions } from '../options.ts';
import { jsonOf, valueAt, type RunNames } from '../request.ts';
import { prepareNamespace, removeNamespace, runCase } from '../target/case-runner.ts';
import { connectTo, type Target } from '../target/target.ts';
import { AcceptedDifferences } from './accepted.ts';
import { compareClusters, type Reference } from './comparison.ts';
import { readRecording, RecordingWriter } from './recording.ts';
import { DifferenceReport } from './report.ts';

interface OpenReference extends Reference {
  readonly seed: number;
  close(): Promise<void>;
}

const acceptedFile = join(import.meta.dirname, 'accepted-differences.json');

/** Compares a subject with a reference cluster or a recording. Returns the number of unaccepted differences. */
export async function compareWithReference(options: DifferOptions, subject: Target): Promise<number> {
  const accepted = await AcceptedDifferences.load(options.accepted ?? acceptedFile);
  const reference = options.replay === undefined ? await liveReference(options) : await recordedReference(options.replay);
  const { namespace } = reference.context.names;
  const report = new DifferenceReport(console.log, options);
  try {
    await prepareNamespace(subject, namespace);
    await compareClusters({
      cases: corpus({ seed: reference.seed, only: options.only }),
      reference,
      subject,
      accepted,
      limits: { ...options, concurrency: 4 },
      report,
    });
  } finally {
    await removeNamespace(subject, namespace);
    await reference.close();
  }
  return report.unaccepted;
}

async function liveReference({ reference: kubeconfig = '', record, seed }: DifferOptions): Promise<OpenReference> {
  const target = await connectTo(kubeconfig);
  const run = `differ-${randomBytes(4).toString('hex')}`;
  const names: RunNames = { run, namespace: run };
  const serverVersion = String(valueAt(jsonOf(await target.send({ method: 'GET', path: '/version' })), 'gitVersion'));
  const { server } = target;
  const writer =
    record === undefined
      ? undefined
      : new RecordingWriter(record, { recordedAt: new Date().toISOString(), serverVersion, server, names, seed });
  await prepareNamespace(target, names.namespace);
  console.log(`reference: ${server}, ${serverVersion}; run ${run}, seed ${seed}`);
  return {
    context: { names, server },
    seed,
    async answers(each) {
      const answers = await runCase(target, each, names);
      writer?.add(each.id, answers);
      return answers;
    },
    async close() {
      await writer?.close();
      await removeNamespace(target, names.namespace);
      target.close();
    },
  };
}

async function recordedReference(file: string): Promise<OpenReference> {
  const { head, answers } = await readRecording(file);
  console.log(`recording of ${head.recordedAt}: ${head.serverVersion}; run ${head.names.run}, seed ${head.seed}`);
  return {
    context: { names: head.names, server: head.server },
    seed: head.seed,
    answers: async ({ id }) => answers.get(id),
    close: async () => {},
  };
}
