// Changes of the texts of manifests, which keep their format.

export const sections = ['dependencies', 'devDependencies', 'peerDependencies', 'optionalDependencies'];

/** Returns the text of a manifest with another version. */
export const withVersion = (text, version) => text.replace(/^(\s*"version": ")[^"]*"/m, (_, start) => `${start}${version}"`);

/** Returns the text of a manifest with exact versions of its dependencies, by name. */
export const withDependencies = (text, versions) =>
  sections
    .flatMap((section) => Object.entries(JSON.parse(text)[section] ?? {}))
    .filter(([name]) => Object.hasOwn(versions, name))
    .reduce((result, [name, range]) => result.replaceAll(`"${name}": "${range}"`, `"${name}": "${versions[name]}"`), text);
