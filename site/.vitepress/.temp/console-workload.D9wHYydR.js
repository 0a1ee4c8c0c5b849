const _imports_1 = "/assets/console-workload.Dwf7eYKK.png";
export {
  _imports_1 as _
};
