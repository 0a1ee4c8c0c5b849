import type { Status } from '@oarlock/spi/scheduling';

/** A status with the name of the plugin that returned it. */
export type PluginStatus = Status & { readonly plugin?: string };

/** The reason why a plugin rejects a pod on one node or on all nodes. */
export interface Rejection {
  readonly plugin: string;
  readonly status: Status;
}

export const isSuccess = ({ code }: Status): boolean => code === 'success' || code === 'skip';

/** Returns the reasons of a status as one text, or the status code if the status has no reasons. */
export const statusMessage = (status: Status): string => ('reasons' in status ? status.reasons.join(', ') : status.code);

/** Adds the plugin's name to a status. The message of an error also gets the extension point, in upstream's words. */
export const asPluginStatus = (plugin: string, point: string, status: Status): PluginStatus =>
  status.code === 'error'
    ? { code: 'error', reasons: [`running ${point} plugin ${JSON.stringify(plugin)}: ${status.reasons.join(', ')}`], plugin }
    : { ...status, plugin };
