package opcua

import (
	"time"

	"github.com/gopcua/opcua/ua"
)

// serverNodes gives the Server object its values.
func (s *Server) serverNodes() {
	sp := s.space
	fixed := map[uint32]any{
		2254: []string{s.cfg.ApplicationURI}, 2255: append([]string{}, sp.namespaces...), 2257: s.start,
		2259: int32(ua.ServerStateRunning),
		2260: ua.NewExtensionObject(s.build()), 2261: "polyscan plcgateway", 2262: ownNamespace, 2263: "polyscan",
		2264: s.cfg.Version, 2265: "", 2266: s.start,
		2992: uint32(0), 2993: &ua.LocalizedText{}, 2267: byte(255), 2994: false,
		2269: []string{"http://opcfoundation.org/UA-Profile/Server/MicroEmbeddedDevice2017",
			"http://opcfoundation.org/UA-Profile/Server/Methods",
			"http://opcfoundation.org/UA-Profile/Server/StandardEventSubscription"},
		2271: []string{"en"}, 2272: float64(0), 2735: uint16(maxContinuations), 2736: uint16(0), 2737: uint16(0),
		3704: []*ua.ExtensionObject{}, 2294: false, 3709: int32(0),
		11702: uint32(maxArray), 11703: uint32(maxMessage / 2),
		11705: uint32(maxNodes), 11707: uint32(maxNodes), 11709: uint32(maxNodes), 11710: uint32(maxNodes),
		11711: uint32(maxNodes),
		11712: uint32(maxNodes), 11714: uint32(maxNodes),
	}
	for id, v := range fixed {
		if n := sp.nodes[num(0, id)]; n != nil {
			n.value = dataValue(v)
		}
	}
	sp.nodes[num(0, 2258)].read = func() *ua.DataValue { return dataValue(time.Now()) }
	sp.nodes[num(0, 2256)].read = func() *ua.DataValue {
		return dataValue(ua.NewExtensionObject(&ua.ServerStatusDataType{StartTime: s.start, CurrentTime: time.Now(),
			State:     ua.ServerStateRunning,
			BuildInfo: s.build(), ShutdownReason: &ua.LocalizedText{}}))
	}
	sp.nodes[serverObject].notifier = 1
}

func (s *Server) build() *ua.BuildInfo {
	return &ua.BuildInfo{ProductURI: ownNamespace, ManufacturerName: "polyscan", ProductName: "polyscan plcgateway",
		SoftwareVersion: s.cfg.Version, BuildDate: s.start}
}
