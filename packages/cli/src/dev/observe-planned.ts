import type { PlannedPlugin } from '@oarlock/cluster/composition/plan';
import { frontOf } from '@oarlock/cluster/hosting/front';
import { withDedicatedInformers } from '@oarlock/cluster/identity/dedicated-informers';
import type { Logger } from '@oarlock/primitives/logger';
import { redactLogFields, redactLogText } from '@oarlock/primitives/redact-secrets';
import { Admission, type AdmissionPlugin, type AdmissionRequest } from '@oarlock/spi/admission';
import { Authn, type Authenticator } from '@oarlock/spi/authn';
import { Controllers, type Controller } from '@oarlock/spi/controller';
import { observeAdmission, observeAuthn, observeController, type PluginCall } from './observe-plugins.ts';
import type { Colors } from './terminal-colors.ts';

export interface PrintOptions {
  readonly paint: Colors;
  print(text: string): void;
}

export interface ObserveOptions extends PrintOptions {
  /** Receives the names of the plugins under development. */
  readonly own: Set<string>;
  /** True in a process without an API server. */
  readonly isRemote?: boolean;
  /** Called for each call of an admission plugin. */
  onCall(request: AdmissionRequest, call: PluginCall): void;
}

/** Adds what `oarlock dev` needs to one plugin: reports of its decisions, and for plugins under development printed logs and reloading. */
export function observePlugin(planned: PlannedPlugin, options: ObserveOptions): PlannedPlugin {
  const { own, paint, print, onCall, isRemote = false } = options;
  const isOwn = planned.origin?.source !== undefined;
  if (isOwn) own.add(planned.name);
  const printed = isOwn ? printLogs(planned, options) : planned;
  const { plugin, name, decorate } = printed;
  const { token } = plugin.provides;
  const front = isOwn ? frontOf(plugin.provides) : undefined;
  const observe = (instance: object): object => {
    if (token === Admission.token) return observeAdmission(instance as AdmissionPlugin, name, onCall);
    if (token === Authn.token && isOwn)
      return observeAuthn(instance as Authenticator, (path, result, ms) => {
        const decision =
          result.outcome === 'authenticated'
            ? paint.green(`is ${result.identity.name}`)
            : paint.red(`rejects: ${result.outcome === 'rejected' ? result.reason : ''}`);
        print(`${paint.cyan(name)} ${decision} ${paint.dim(`${path}, ${ms.toFixed(2)} ms`)}`);
      });
    return instance;
  };
  return {
    ...printed,
    plugin: isOwn ? withDedicatedInformers(plugin, isRemote) : plugin,
    decorate: (instance, context, health) => observe(decorate?.(instance, context, health) ?? instance),
    ...(front && { makeSwappable: front }),
  };
}

/** Prints the logs of a plugin, its late errors, and the failed reconciles of a controller, with the plugin's name. */
export function printLogs(planned: PlannedPlugin, options: PrintOptions): PlannedPlugin {
  const { paint, print } = options;
  const { plugin, name, decorate } = planned;
  const decorateLog = (log: Logger) => teeLog(log, name, options);
  if (plugin.provides.token !== Controllers.token) return { ...planned, decorateLog };
  const onFailure = (key: string, error: unknown) =>
    print(`${paint.cyan(name)} ${paint.red(`reconcile of ${key} failed; retrying`)}${errorText(error)}`);
  return {
    ...planned,
    decorateLog,
    decorate: (instance, context, health) =>
      observeController((decorate?.(instance, context, health) ?? instance) as Controller, onFailure, decorateLog),
  };
}

/** Returns a logger that also prints info, warnings and errors to the terminal, without secrets. */
function teeLog(
  log: Logger,
  name: string,
  { bound, ...options }: PrintOptions & { readonly bound?: Readonly<Record<string, unknown>> },
): Logger {
  const { paint, print } = options;
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (fields: Record<string, unknown>, message: string): void => {
      log[level](fields, message);
      if (level === 'debug') return;
      const { err, ...rest } = { ...bound, ...fields };
      const color = level === 'error' ? paint.red : level === 'warn' ? paint.yellow : (text: string) => text;
      const more = Object.keys(rest).length === 0 ? '' : ` ${paint.dim(JSON.stringify(redactLogFields(rest)))}`;
      print(`${paint.cyan(name)} ${color(redactLogText(message))}${more}${errorText(err)}`);
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (more) => teeLog(log.child(more), name, { ...options, bound: { ...bound, ...more } }),
  };
}

/** Returns the message of an error and those lines of its stack that are in the author's files. */
function errorText(error: unknown): string {
  if (error === undefined) return '';
  if (!(error instanceof Error)) return `: ${redactLogText(String(error))}`;
  const lines = (error.stack ?? '')
    .split('\n')
    .filter(
      (line) =>
        /^\s+at /.test(line) && !/node:|node_modules|[\\/](?:packages|plugins)[\\/][^\\/]+[\\/](?:src|dist)[\\/]|oarlock\.cjs/.test(line),
    );
  return [`: ${redactLogText(error.message)}`, ...lines.slice(0, 5)].join('\n');
}
