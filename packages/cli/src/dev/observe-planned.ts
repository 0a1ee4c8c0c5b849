import type { PlannedPlugin } from '@oarlock/cluster/composition/plan';
import { frontOf } from '@oarlock/cluster/hosting/front';
import { withDedicatedInformers } from '@oarlock/cluster/identity/dedicated-informers';
import type { Logger } from '@oarlock/primitives/logger';
import type { PluginContext } from '@oarlock/kernel/plugin';
import { Admission, type AdmissionPlugin, type AdmissionRequest } from '@oarlock/spi/admission';
import { Authn, type Authenticator } from '@oarlock/spi/authn';
import { Controllers, type Controller } from '@oarlock/spi/controller';
import { observeAdmission, observeAuthn, observeController, type PluginCall } from './observe-plugins.ts';
import type { Colors } from './terminal-colors.ts';

export interface ObserveOptions {
  /** Receives the names of the plugins under development. */
  readonly own: Set<string>;
  readonly paint: Colors;
  /** True in a process without an API server. */
  readonly isRemote?: boolean;
  print(text: string): void;
  /** Called for each call of an admission plugin. */
  onCall(request: AdmissionRequest, call: PluginCall): void;
}

/** Adds what `oarlock dev` needs to one plugin: reports of its decisions, and for plugins under development printed logs and reloading. */
export function observePlugin(planned: PlannedPlugin, options: ObserveOptions): PlannedPlugin {
  const { own, paint, print, onCall, isRemote = false } = options;
  const { plugin, name, decorate, origin } = planned;
  const { token } = plugin.provides;
  const isOwn = origin?.source !== undefined;
  if (isOwn) own.add(name);
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
    if (token === Controllers.token && isOwn)
      return observeController(
        instance as Controller,
        (key, error) => print(`${paint.cyan(name)} ${paint.red(`reconcile of ${key} failed; retrying`)}${errorText(error)}`),
        (log) => teeLog(log, name, options),
      );
    return instance;
  };
  const withPrintedLog = (context: PluginContext): PluginContext =>
    isOwn ? { ...context, log: teeLog(context.log, name, options) } : context;
  const base = isOwn ? withDedicatedInformers(plugin, isRemote) : plugin;
  return {
    ...planned,
    plugin: isOwn ? { ...base, create: (dependencies, context) => base.create(dependencies, withPrintedLog(context)) } : plugin,
    decorate: (instance, context, health) => observe(decorate?.(instance, withPrintedLog(context), health) ?? instance),
    ...(front && { makeSwappable: front }),
  };
}

/** Returns a logger that also prints info, warnings and errors to the terminal. */
function teeLog(log: Logger, name: string, options: Pick<ObserveOptions, 'paint' | 'print'>): Logger {
  const { paint, print } = options;
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (fields: Record<string, unknown>, message: string): void => {
      log[level](fields, message);
      if (level === 'debug') return;
      const { err, ...rest } = fields;
      const color = level === 'error' ? paint.red : level === 'warn' ? paint.yellow : (text: string) => text;
      const more = Object.keys(rest).length === 0 ? '' : ` ${paint.dim(JSON.stringify(rest))}`;
      print(`${paint.cyan(name)} ${color(message)}${more}${errorText(err)}`);
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (more) => teeLog(log.child(more), name, options),
  };
}

/** Returns the message of an error and those lines of its stack that are in the author's files. */
function errorText(error: unknown): string {
  if (error === undefined) return '';
  if (!(error instanceof Error)) return `: ${String(error)}`;
  const lines = (error.stack ?? '')
    .split('\n')
    .filter(
      (line) =>
        /^\s+at /.test(line) && !/node:|node_modules|[\\/](?:packages|plugins)[\\/][^\\/]+[\\/](?:src|dist)[\\/]|oarlock\.cjs/.test(line),
    );
  return [`: ${error.message}`, ...lines.slice(0, 5)].join('\n');
}
