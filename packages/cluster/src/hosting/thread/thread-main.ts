/** The program of a thread that `PluginThread` starts: it runs one plugin. */
import { runPluginThread } from './run-plugin-thread.ts';

await runPluginThread((module) => import(module));
