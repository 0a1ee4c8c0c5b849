import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { availableParallelism, homedir, hostname, release, totalmem } from 'node:os';
import { dirname, resolve } from 'node:path';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { fileErrorReason } from '@oarlock/primitives/os/file-error';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { formatFacts, printFacts, type OutputFormat } from '../common/output.ts';
import { clusterReport } from './cluster-report.ts';
import { runChecks, type CheckResult } from './checks/check.ts';
import { checks } from './checks/checks.ts';
import { probeCompositions, type CompositionResult } from './compositions.ts';
import { thisMachine } from './checks/machine.ts';
import { redact } from './redact.ts';
import { versionFacts } from './version.ts';

export interface DoctorOptions {
  readonly dataDir: string;
  readonly output: OutputFormat;
  readonly report?: string;
}

export interface Diagnosis {
  readonly machine: Readonly<Record<string, string | number>>;
  readonly checks: readonly CheckResult[];
  readonly compositions: readonly CompositionResult[];
}

/** Prints what this machine can run. Sets exit code 1 if no ready composition can run here. */
export async function doctor({ dataDir, output, report }: DoctorOptions): Promise<void> {
  if (report !== undefined) await orUsage(report, () => access(dirname(resolve(report)), constants.W_OK));
  const machine = thisMachine();
  const [results, compositions] = await Promise.all([runChecks(checks, { machine, dataDir: resolve(dataDir) }), probeCompositions()]);
  const diagnosis: Diagnosis = {
    machine: {
      ...versionFacts(),
      kernel: release(),
      user: machine.root ? 'root' : 'ordinary',
      cpus: availableParallelism(),
      memoryBytes: totalmem(),
    },
    checks: results,
    compositions,
  };
  if (report !== undefined)
    await writeReport(
      report,
      redact(
        { ...diagnosis, cluster: await clusterReport(resolve(dataDir)) },
        { username: machine.userName, homedir: homedir(), hostname: hostname() },
      ),
    );
  await printFacts(output, diagnosis, textOf);
  if (report !== undefined) process.stderr.write(`wrote ${report}: read it before you attach it to a bug report\n`);
  const exitCode = compositions.some(({ canRun }) => canRun) ? exitCodes.done : exitCodes.failed;
  // a probe that never returns would keep the process alive
  process.exit(exitCode);
}

const writeReport = (file: string, diagnosis: Diagnosis) =>
  orUsage(file, () => writeAtomic(resolve(file), formatFacts('yaml', diagnosis, String)));

/** @throws CommandError that names the report, if `work` fails */
async function orUsage(file: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (cause) {
    throw new CommandError(`--report: ${file} cannot be written: ${fileErrorReason(cause)}`, exitCodes.usage, { cause });
  }
}

/** Formats a diagnosis: what is well in one line each, the rest with its meaning and remedy. */
export function textOf({ checks: results, compositions }: Diagnosis): string {
  const width = Math.max(...[...results, ...compositions].map(({ name }) => name.length));
  const indent = ' '.repeat(width + 8);
  const lines = results.flatMap((result) => [
    `${result.level.padEnd(4)}  ${result.name.padEnd(width)}  ${result.found}`,
    ...(result.level === 'ok' ? [] : [`${indent}${result.affects}`, `${indent}-> ${result.remedy}`]),
  ]);
  const verdicts = compositions.map(({ name, canRun, reasons }) =>
    canRun ? `yes   ${name}` : `no    ${name.padEnd(width)}  ${reasons.join(`\n${indent}`)}`,
  );
  return [...lines, '', 'Ready compositions that can run here (`oarlock up -f NAME`):', ...verdicts].join('\n');
}
