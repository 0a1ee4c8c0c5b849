import type { Command } from 'commander';
import { answerTimeout, dataDir, namespace } from '../common/command-options.ts';
import { output } from '../common/output.ts';

/** Adds `oarlock auth` and its subcommand. */
export function addAuthCommands(root: Command): void {
  const auth = root.command('auth').description('examine permissions');
  auth
    .command('why')
    .description(
      'show which authorizer or admission plugin allows or denies an action, and by which rule; exits with 1 if it is not allowed',
    )
    .argument('<user>', 'user name, such as ada or system:serviceaccount:default:robot')
    .argument('<verb>')
    .argument('<resource>', 'resource such as pods or deployments.apps/scale, or a path such as /metrics')
    .argument('[name]')
    .addOption(dataDir())
    .addOption(namespace("namespace of the object; '' for all namespaces"))
    .option('-g, --group <groups...>', 'groups of the user in addition to those that its name implies', [])
    .option(
      '-f, --filename <file>',
      'YAML or JSON of the object that the action writes, or of the merge patch of `patch`: also shows which admission plugin denies it',
    )
    .addOption(answerTimeout())
    .addOption(output())
    .action(async (user, verb, resource, name, options) =>
      (await import('./auth.ts')).why(user, verb, { target: resource, name, options }),
    );
}

/** Adds `oarlock trace`. */
export function addTraceCommand(root: Command): void {
  root
    .command('trace')
    .description('show each step between a write to an object and its effects')
    .argument('[object]', 'object such as deployment/hello or pod/hello-abc')
    .addOption(dataDir())
    .addOption(namespace('namespace of the object'))
    .option('--failed', 'show the latest step that failed, and its error', false)
    .addOption(answerTimeout())
    .addOption(output())
    .action(async (object, options) => (await import('./trace.ts')).trace(object, options));
}

/** Adds `oarlock explain` and its subcommands. */
export function addExplainCommands(root: Command): void {
  const explain = root.command('explain').description('explain decisions of the scheduler and of network policies');
  explain
    .command('pod')
    .description('show for each node why a pod cannot run there, or its score; exits with 1 if the pod fits no node')
    .argument('[name]')
    .addOption(dataDir())
    .option('--kubeconfig <file>', 'kubeconfig of the cluster; default: that of its admin')
    .addOption(namespace('namespace of the pod'))
    .option('--what-if', 'schedule the pods of a manifest without creating them', false)
    .option('-f, --file <file>', 'manifest for --what-if')
    .addOption(answerTimeout())
    .addOption(output())
    .action(async (name, options) => (await import('./explain-pod.ts')).explainPod(name, options));
  explain
    .command('traffic')
    .description('show which rule of which NetworkPolicy allows or denies traffic; exits with 1 if it is denied')
    .argument('<from>', 'source: a pod as NAME or NAMESPACE/NAME, or an IP address')
    .argument('<to>', 'destination, in the same form')
    .argument('<port>', 'port such as 80, 53/udp, or the name of a container port of the destination')
    .addOption(dataDir())
    .addOption(namespace('namespace of pods that are given without one'))
    .addOption(answerTimeout())
    .addOption(output())
    .action(async (from, to, port, options) => (await import('./explain-traffic.ts')).explainTrafficBetween(from, { to, port }, options));
}
