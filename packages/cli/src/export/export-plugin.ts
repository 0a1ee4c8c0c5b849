import { CommandError, exitCodes } from '../common/command-error.ts';
import { exportComponent, type ComponentOptions } from './export-component.ts';
import { exportWebhook, type WebhookOptions } from './export-webhook.ts';

/** The plugin is the value of the option that names what it becomes. */
export type PluginExportOptions = WebhookOptions &
  ComponentOptions & { readonly webhook?: string; readonly controller?: string; readonly scheduler?: string };

/** Writes a plugin as an image to build and as manifests for any Kubernetes cluster. @throws CommandError if the plugin cannot be exported */
export async function exportPlugin({ webhook, controller, scheduler, ...options }: PluginExportOptions): Promise<void> {
  const named = Object.entries({ webhook, controller, scheduler }).flatMap(([kind, use]) => (use === undefined ? [] : [{ kind, use }]));
  const [only] = named;
  if (only === undefined || named.length > 1)
    throw new CommandError('name one plugin to export: --webhook, --controller or --scheduler PLUGIN', exitCodes.usage);
  if (only.kind === 'webhook') await exportWebhook(only.use, options);
  else await exportComponent(only.use, { kind: only.kind === 'controller' ? 'controller' : 'scheduler', options });
}
