import { Option, type Command } from 'commander';
import { portNumber } from '../common/command-options.ts';

/** Adds `oarlock dev`. */
export function addDevCommand(root: Command): void {
  root
    .command('dev')
    .description('run a cluster in memory, reload your plugins whenever you save them, and show what they do to each request')
    .argument('[plugins...]', 'plugin files such as ./plugin.ts, or folders with plugins, in addition to those that the file of -f names')
    .option('-f, --file <file>', 'cluster.yaml of the cluster; default: one simulated node and the console')
    .addOption(new Option('--data-dir <dir>', 'directory for the keys and the kubeconfig').default('./.oarlock-dev'))
    .option('--port <number>', 'port of the API server, or with --kubeconfig of the webhook server; default: any free port', portNumber)
    .option('--kubeconfig <file>', 'run the plugins in an existing cluster: controllers, schedulers, and admission plugins as webhooks')
    .option('--webhook-url <url>', 'URL at which that cluster reaches this machine; default: its address in the network of the API server')
    .addOption(new Option('--failure-policy <policy>', 'failurePolicy of the webhooks; default: Ignore').choices(['Ignore', 'Fail']))
    .option('--scheduler-name <name>', 'schedulerName of the pods that scheduling plugins place; default: oarlock-dev')
    .option('--all', 'also show the requests of the cluster components', false)
    .action(async (plugins, options) => (await import('./dev.ts')).dev(plugins, options));
}
