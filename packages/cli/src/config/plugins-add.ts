import { readFile, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { sectionOf } from '@oarlock/cluster/cluster-file/insert-plugin';
import type { Section } from '@oarlock/cluster/cluster-file/sections';
import { checkPlan } from '@oarlock/cluster/composition/check-plan';
import { createPlan } from '@oarlock/cluster/composition/create-plan';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { loadPlugin } from '@oarlock/cluster/plugins/plugin-loader';
import { WiringError } from '@oarlock/kernel/errors';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { errorText } from '@oarlock/primitives/error-text';
import { parse } from 'yaml';
import { CommandError, describeError, exitCodes } from '../common/command-error.ts';
import { withPlacement } from './edit-cluster-file.ts';
import { installPackage, packageSpec, type Installation, type PackageSpec } from './npm-install.ts';

export interface AddOptions {
  readonly file: string;
  readonly config?: string;
}

/**
 * Installs a plugin with npm into the folder of a cluster file, unless it is one of Oarlock's own, and adds it to the file.
 * @throws CommandError or WiringError if a step fails; the folder and the file are then as before
 */
export async function add(name: string, { file: path, config }: AddOptions): Promise<void> {
  const file = resolve(path);
  await validate(file);
  const spec = await packageSpec(name);
  const settings = config === undefined ? undefined : (parse(await readFile(config, 'utf8')) as unknown);
  const installation = (await isInstalled(spec, file)) ? undefined : await installPackage(dirname(file), spec);
  try {
    const section = await sectionOfPackage(spec.name, file);
    await place(file, section, settings === undefined ? spec.name : { use: spec.name, config: settings });
    await installation?.keep();
    console.log(`added ${spec.name} to spec.${section.key} of ${path}`);
  } catch (error) {
    await undo(installation, error);
    throw error;
  }
}

/** A name without a version of a plugin that Oarlock contains is not installed again. */
async function isInstalled({ install, name }: PackageSpec, file: string): Promise<boolean> {
  return install === name && !name.includes('/') && 'plugin' in (await loadPlugin(name, file));
}

async function sectionOfPackage(name: string, file: string): Promise<Section> {
  const loaded = await loadPlugin(name, file);
  if ('fault' in loaded) throw new WiringError([loaded.fault]);
  const section = sectionOf(loaded.plugin);
  if (section === undefined)
    throw new CommandError(`${name} provides ${loaded.plugin.provides.id}, which has no section in a cluster.yaml`, exitCodes.usage);
  return section;
}

/** Validates the file with the plugin before it replaces the file. */
async function place(file: string, section: Section, placement: Parameters<typeof withPlacement>[2]): Promise<void> {
  const text = withPlacement(await readFile(file, 'utf8'), section, placement);
  // relative paths of the file are resolved against its folder
  const candidate = join(dirname(file), `.${basename(file)}.${process.pid}.candidate.yaml`);
  try {
    await writeFile(candidate, text, { mode: 0o600 });
    await validate(candidate).catch((error: unknown) => {
      throw new CommandError(describeError(error).message.replaceAll(candidate, file), exitCodes.usage, { cause: error });
    });
  } finally {
    await rm(candidate, { force: true });
  }
  await writeAtomic(file, text, { mode: 0o644 });
}

const validate = async (file: string): Promise<void> => checkPlan(await createPlan(await readClusterFile(file)));

async function undo(installation: Installation | undefined, reason: unknown): Promise<void> {
  await installation?.undo().catch((cause: unknown) => {
    throw new CommandError(
      `${describeError(reason).message}\nThe package could not be removed again: ${errorText(cause)}`,
      exitCodes.failed,
      { cause },
    );
  });
}
