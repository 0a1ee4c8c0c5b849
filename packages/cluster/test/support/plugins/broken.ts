function load(): never {
  throw new Error('this module does not load');
}
export default load();
