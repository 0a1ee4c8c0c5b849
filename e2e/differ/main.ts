// `npm run differ`: compares the answers of two clusters to the same requests, or the answers of one cluster with each other.
import 'reflect-metadata';
import { compareWithReference } from './compare/command.ts';
import { checkConsistency } from './consistency/command.ts';
import { parseOptions, usage, UsageError, type DifferOptions } from './options.ts';
import { startOwnCluster } from './target/own-cluster.ts';
import { connectTo } from './target/target.ts';

function optionsOrExit(): DifferOptions {
  try {
    const options = parseOptions(process.argv.slice(2));
    if (!options.help) return options;
    console.log(usage);
    process.exit(0);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(`${error.message}\n${usage}`);
    process.exit(2);
  }
}

const options = optionsOrExit();
const own = options.subject === undefined ? await startOwnCluster() : undefined;
try {
  const subject = await connectTo(options.subject ?? own?.kubeconfig ?? '');
  const withReference = options.reference !== undefined || options.replay !== undefined;
  const differences = withReference ? await compareWithReference(options, subject) : await checkConsistency(options, subject);
  subject.close();
  process.exitCode = differences === 0 ? 0 : 1;
} finally {
  await own?.stop();
}
