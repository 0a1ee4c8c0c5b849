import { oarlockVersion, version } from '@oarlock/cluster/process/version';
import { formatTable } from '../common/format-table.ts';
import { printFacts, type OutputFormat } from '../common/output.ts';

export const versionFacts = () => ({
  oarlock: oarlockVersion,
  kubernetes: version,
  node: process.version,
  platform: `${process.platform}/${process.arch}`,
});

/** Prints the versions that a bug report needs. */
export async function printVersion({ output }: { readonly output: OutputFormat }): Promise<void> {
  await printFacts(output, versionFacts(), (facts) => formatTable(Object.entries(facts)));
}
