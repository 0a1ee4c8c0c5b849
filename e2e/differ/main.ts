// `npm run differ`: compares the answers of two clusters to the same requests, or the answers of one cluster with each other.
import 'reflect-metadata';
import { KubeconfigError } from '@oarlock/client/kubeconfig';
import { compareWithReference } from './compare/command.ts';
import { checkConsistency } from './consistency/command.ts';
import { parseOptions, usage, UsageError, type DifferOptions } from './options.ts';
import { InputError } from './request.ts';
import { allVersionsSpec, apiServerSpec, startOwnCluster } from './target/own-cluster.ts';
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

/** Returns whether the arguments are at fault: a file that does not exist, or that is no kubeconfig, recording or list of accepted differences. */
const isInputError = (error: unknown): error is Error =>
  error instanceof KubeconfigError || error instanceof InputError || (error as NodeJS.ErrnoException).code === 'ENOENT';

const options = optionsOrExit();
const withReference = options.reference !== undefined || options.replay !== undefined;
const own = options.subject === undefined ? await startOwnCluster(withReference ? apiServerSpec : allVersionsSpec) : undefined;
try {
  const subject = await connectTo(options.subject ?? own?.kubeconfig ?? '');
  const differences = withReference ? await compareWithReference(options, subject) : await checkConsistency(options, subject);
  subject.close();
  process.exitCode = differences === 0 ? 0 : 1;
} catch (error) {
  if (!isInputError(error)) throw error;
  console.error(`${error.message}\n${usage}`);
  process.exitCode = 2;
} finally {
  await own?.stop();
}
